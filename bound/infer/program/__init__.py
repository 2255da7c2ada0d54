"""What the pass knows of the program: its accesses, who reads whom, the reads with all their conditions, sizes."""
