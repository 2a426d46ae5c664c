#!/bin/sh
# stile compare sysbench: threads of two Linux guests on one pCPU take locks and yield.
#
# limit: 900
# needs: large-linux-guest
. /lane/linux.sh
image=/lane/linux-large
compares sysbench --vms 2 --setup 1x256M --pcpus 0 --duration 2 --set threads=4 && has_figures sysbench latency_max
