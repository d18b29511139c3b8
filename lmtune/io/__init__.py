"""Readers and writers of file formats; errors name the file and the line."""
