#!/bin/sh
# The same with two and four vCPUs, which start each other by INIT and start-up messages.
#
# limit: 1200
# needs: linux-guest
. /lane/linux.sh
in_user_space executors
boots 2 rsdl && boots 4 rsdl || exit
in_user_space leases
boots 2 host && boots 4 rsdl
