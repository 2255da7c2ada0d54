"""The prover: tiers that decide conditions, cheapest first, and the proofs they give."""
