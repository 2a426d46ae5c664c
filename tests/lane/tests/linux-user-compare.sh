#!/bin/sh
# stile compare hackbench --guest linux by executors, with interrupt controllers in user space.
#
# limit: 1200
# needs: linux-guest
. /lane/linux.sh
# Each change of threads would take tens of milliseconds.
moves_freely || { echo "executors need Linux 6.13"; exit 0; }
compares hackbench --policies host,rsdl:leases,rsdl:executors --groups 2 --pcpus 0 --set loops=5 --set fan=5 || exit
has_figures hackbench run_time && [ "$(policies)" = "host rsdl:executors rsdl:leases " ]
