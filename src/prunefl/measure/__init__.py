"""What this machine does: devices profiled, kernels and bytes timed."""
