"""What is trained, on what, and how: architectures, data, objectives and the training loop."""
