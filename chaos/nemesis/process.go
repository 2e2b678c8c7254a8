package nemesis

// processFaults are those of processes that use the library.
func processFaults() []Fault {
	return []Fault{{
		Name: "client-frozen", What: "SIGSTOP of client processes for longer than a lease", On: anywhere, Live: true, Children: true, Span: 2600 * ms,
		Do: func(p *Play) {
			for _, c := range p.Children {
				c.Freeze()
				p.seen(c.Frozen())
			}
		},
		Undo: func(p *Play) {
			for _, c := range p.Children {
				c.Thaw()
			}
		},
	}, {
		Name: "client-killed", What: "kill -9 of client processes that hold and wait, and are started again", On: anywhere, Live: true, Children: true, Again: true, Span: 2600 * ms,
		Do: func(p *Play) {
			for _, c := range p.Children {
				c.Kill()
				p.seen(c.Dead())
			}
		},
	}}
}
