"""Gradients of smooth measures compared with direct search (following Metzler 2007)."""
