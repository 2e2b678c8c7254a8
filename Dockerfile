# The command alone, static, as nobody:
#
#	docker build -t latchkey --build-arg VERSION=v0.1.0 .
#	docker run --rm --network host latchkey ls
#
# To run commands under locks in an image of your own, take the binary out of it:
#
#	COPY --from=latchkey /latchkey /usr/local/bin/latchkey
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
WORKDIR /src
# The modules of the workspace first: they change less often than the code.
COPY go.mod go.sum go.work go.work.sum ./
COPY bench/go.mod bench/go.sum bench/
COPY chaos/go.mod chaos/go.sum chaos/
COPY cmd/latchkey/go.mod cmd/latchkey/go.sum cmd/latchkey/
COPY interop/go.mod interop/go.sum interop/
COPY otel/go.mod otel/go.sum otel/
COPY prom/go.mod prom/go.sum prom/
RUN --mount=type=cache,target=/go/pkg/mod cd cmd/latchkey && go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
	CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$VERSION" -o /latchkey ./cmd/latchkey

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /latchkey /latchkey
USER 65534:65534
ENTRYPOINT ["/latchkey"]
