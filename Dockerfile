# One build, three small images: `docker build --target intake-svc .`, likewise sender-svc and bongsu.
#
# No cache mounts and no `# syntax=` line, so that the classic builder and a machine without a registry's frontend build
# it too.

FROM rust:1.95-bookworm AS builder
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p intake-svc -p sender-svc -p bongsu \
    && mkdir /out \
    && cp target/release/intake-svc target/release/sender-svc target/release/bongsu /out/ \
    && rm -rf target

# What every image shares. The certificates are for providers behind https.
FROM debian:bookworm-slim AS runtime
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532
WORKDIR /

# Ports: 7070 gRPC, 7071 probes and metrics.
FROM runtime AS intake-svc
COPY --from=builder /out/intake-svc /usr/local/bin/
EXPOSE 7070 7071
ENTRYPOINT ["intake-svc"]

# Ports: 7080 gRPC, 7081 probes and metrics, 7090 the live channel where --live-listen asks for it.
FROM runtime AS sender-svc
COPY --from=builder /out/sender-svc /usr/local/bin/
EXPOSE 7080 7081 7090
ENTRYPOINT ["sender-svc"]

# The operator's tool; also `bongsu migrate` and, for trying things out, `bongsu provider-sim`.
FROM runtime AS bongsu
COPY --from=builder /out/bongsu /usr/local/bin/
ENTRYPOINT ["bongsu"]
