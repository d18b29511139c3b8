"""Metzler (2007) continued: lambda and mu by the gradients of smooth measures."""
