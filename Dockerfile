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
COPY . .
ARG TARGETOS TARGETARCH VERSION
# Modules and compiled packages stay in the builder's caches.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
	CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$VERSION" -o /latchkey ./cmd/latchkey

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /latchkey /latchkey
USER 65534:65534
ENTRYPOINT ["/latchkey"]
