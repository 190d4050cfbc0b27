"""A dead attempt's text and exit codes -> class, cause, retry, suspects, the deciding line."""
