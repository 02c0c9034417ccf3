"""Sockets: made, secured, watched and closed; nothing here knows what messages mean."""
