"""Gradients of smooth measures against direct search (Metzler 2007 continued)."""
