#!/bin/sh
# Two Linux guests that compute on two vCPUs each share one pCPU under rsdl: each within a fifth of half.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh

burn="busybox md5sum /dev/zero &; busybox md5sum /dev/zero &; idle"
{
    printf '[host]\npcpus = [0]\n\n'
    policy rsdl
    configure a 2 "$burn"
    configure b 2 "$burn"
} >guest.toml
stile run --stats=3 --stats-json stats.json --console console guest.toml >output 2>&1 &
monitor=$!
until [ "$(grep -c 'stile: begin [0-9]* idle' console 2>/dev/null)" = 2 ]; do
    kill -0 $monitor || { cat console output; exit 1; }
    sleep 1
done
# Four whole intervals, and what is left of the one in which the second guest began.
sleep 16
kill $monitor
wait $monitor
cat console output

# The run time of each guest, interval by interval.
sed -n 's/.*"final":false.*"vms":\[{"run_seconds":\([0-9.]*\),.*\]},{"run_seconds":\([0-9.]*\),.*/\1 \2/p' stats.json |
    tail -n 4 | awk '
        { print; a += $1; b += $2 }
        END {
            half = (a + b) / 2
            printf "in all %.1f and %.1f s\n", a, b
            exit !(NR == 4 && a > 0.8 * half && b > 0.8 * half && half > 2)
        }'
