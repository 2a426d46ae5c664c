#!/bin/sh
# The same with two and four vCPUs, which the guest finds by ACPI.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh
boots 2 host && boots 2 rsdl && boots 4 host && boots 4 rsdl
