"""What a server is made of, beside what it publishes."""
