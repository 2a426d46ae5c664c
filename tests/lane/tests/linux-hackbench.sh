#!/bin/sh
# stile compare hackbench in Linux guests: two of two vCPUs share one pCPU, and all come to an end under both schedulers.
#
# limit: 1200
# needs: linux-guest
. /lane/linux.sh
compares hackbench --groups 2 --pcpus 0 --set loops=5 --set fan=5 && has_figures hackbench run_time && [ "$(policies)" = "host rsdl " ]
