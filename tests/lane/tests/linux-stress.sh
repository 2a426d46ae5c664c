#!/bin/sh
# stile compare stress: stressors of stress-ng that wait for each other, in two Linux guests on one pCPU.
#
# limit: 1800
# needs: large-linux-guest
. /lane/linux.sh
image=/lane/linux-large
for stressor in 0 1 2; do
    # A stressor whose time is over before it has made its processes fails, and an emulated machine may take seconds for that.
    compares stress --vms 2 --setup 1x256M --pcpus 0 --duration 10 --set stressor=$stressor || exit
    has_figures stress min_share && [ "$(policies)" = "host rsdl " ] || exit
done
