"""What every answer promises: claims, budgets, being the same whatever was asked before."""
