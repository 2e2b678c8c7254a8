module github.com/latchkey-go/latchkey/cmd/latchkey

go 1.26.0
