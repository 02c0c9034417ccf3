"""Messages of a server to its clients, by topic."""
