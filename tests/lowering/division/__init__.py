"""Division lowering."""
