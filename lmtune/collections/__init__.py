"""Where a test collection comes from: by name, by folder, or by explicit files."""
