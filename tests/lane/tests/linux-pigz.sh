#!/bin/sh
# stile compare pigz: two Linux guests of two vCPUs compress on one pCPU, and all come to an end under both schedulers.
#
# limit: 900
# needs: linux-guest
. /lane/linux.sh
compares pigz --vms 2 --pcpus 0 --set mb=1 && has_figures pigz run_time && [ "$(policies)" = "host rsdl " ]
