"""What any program needs of its machine: files, locks, plug-ins, errors."""
