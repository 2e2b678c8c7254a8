// Package ui is a web page that shows the locks and other objects in Redis: who holds
// them, who waits, which clients there are, which jobs ran and who leads.
//
//	h, err := ui.New(client, ui.Options{Title: "prod"})
//	if err != nil {
//		return err
//	}
//	defer h.Close()
//	mux.Handle("/locks/", http.StripPrefix("/locks", h))
//
// The command latchkey serve shows the same page. It is rendered by the server, works
// without JavaScript, and with it follows what happens (server-sent events). It has
// English and Chinese texts.
//
// # What it shows to whom
//
// Whoever can send the Handler a request sees every name, label and host. Put it behind
// what authenticates your users, or ask them yourself in Options.Authorize. Nobody can
// change anything unless Authorize is set and ReadOnly is not. An action is a POST from
// the same site, with the name of the object typed to confirm it, and is told to
// Options.Audit.
//
// # What it costs
//
// However many browsers look, one pass at a time reads the key names by SCAN and then
// each object by one command, and the next one begins after four times as long as the
// last one took, but not before Options.Interval. While nobody looks, nothing is read.
// The page needs the rights of latchkey ls (docs/security.md).
package ui
