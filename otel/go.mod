module github.com/latchkey-go/latchkey/otel

go 1.26.0
