"""What fitted settings lose on other topics, and how many topics tell two settings apart."""
