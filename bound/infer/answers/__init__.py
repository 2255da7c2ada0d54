"""What `infer_bound` answers: regions, explanations, accesses outside of tensors, nests without a guard."""
