#!/bin/sh
# stile compare cyclictest: the timers of one Linux guest, beside another that computes.
#
# limit: 900
# needs: linux-guest
. /lane/linux.sh
compares cyclictest --vms 2 --setup 1x256M --duration 1 && has_figures cyclictest latency_p99
