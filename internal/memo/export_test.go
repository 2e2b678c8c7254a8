package memo

// Name returns the name of the call, as Record has it.
func (c *Call) Name() string { return c.name }
