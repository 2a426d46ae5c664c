#!/bin/sh
# An unmodified Linux guest with one vCPU boots, carries out its orders and powers off, under both schedulers.
#
# limit: 300
# needs: linux-guest
. /lane/linux.sh
boots 1 host && boots 1 rsdl
