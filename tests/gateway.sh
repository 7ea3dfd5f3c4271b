#!/bin/bash
# gateway.sh - what tests of the gateway share, after helper.sh: its start on free ports, its address, its end.
# shellcheck shell=bash disable=SC2034 # http is for the test
log=$work/log # of the gateway
gateway () { exec "$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 "$@"; }
# Sets `http`; fails until the gateway listens.
address () { http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$log"); [ -n "$http" ]; }
# SIGTERM ends the gateway of process id $gateway.
drained () { kill -TERM "$gateway" && wait "$gateway"; }
