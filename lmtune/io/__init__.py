"""File formats: bytes in, arrays and plain objects out; strict, with line-numbered errors."""
