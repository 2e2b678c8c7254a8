module github.com/latchkey-go/latchkey/bench

go 1.26.0
