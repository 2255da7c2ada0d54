"""The prover and its tiers."""
