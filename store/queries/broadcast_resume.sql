UPDATE broadcast SET paused = false WHERE id = $1 AND paused
