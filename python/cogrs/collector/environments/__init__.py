"""Environments in Python as games: what moves them, here or in other processes."""
