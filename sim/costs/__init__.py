"""Cost sources: the time that one part of one operator takes on a kind of device."""
