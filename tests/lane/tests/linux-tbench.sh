#!/bin/sh
# stile compare tbench: two clients and their servers, in two Linux guests on one pCPU, have their answers without an error.
#
# limit: 1200
# needs: linux-guest
. /lane/linux.sh
compares tbench --clients 2 --pcpus 0 --duration 20 && has_figures tbench latency_max
