#!/bin/sh
# A Linux guest reads as steal time what its vCPUs waited by the ledger, within 1 % of the time that it computed.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh

# How long the guest computes on both of its vCPUs, beside three vCPUs that compute on the same pCPU (unit: s).
span=20

# steals POLICY: runs them, and compares the guest's figures with the monitor's.
steals() {
    burn="busybox md5sum /dev/zero &; busybox md5sum /dev/zero &; busybox sleep $span; busybox killall md5sum"
    {
        printf '[host]\npcpus = [0]\n\n'
        policy "$1"
        configure guest 2 "$burn; busybox sleep 1; busybox grep cpu /proc/stat; idle"
        printf '[[vm]]\nname = "hogs"\nimage = "builtin:hog"\nvcpus = 3\n'
    } >guest.toml
    rm -f console stats.json
    stile run --stats=1 --stats-json stats.json --console console guest.toml >output 2>&1 &
    monitor=$!
    echo "-- under $1"
    until grep -q 'stile: begin [0-9]* idle' console 2>/dev/null; do
        kill -0 $monitor || { cat console output; return 1; }
        sleep 1
    done
    # From here on the guest idles, so the next reading is that of the moment in which it read its own.
    sleep 2
    kill $monitor
    wait $monitor
    cat console
    # The guest's figures are in hundredths of a second, in the field `steal`: the eighth after the name.
    stolen=$(awk '$1 == "cpu" { print $9 / 100 }' console | tail -n 1)
    # The figures of the first VM, which come before those of its vCPUs.
    tail -n 1 stats.json | sed 's/.*"vms":\[{//; s/"vcpus".*//' | tr ',' '\n' |
        awk -F: '{ gsub(/"/, ""); print $1, $2 }' >figures
    awk -v stolen="$stolen" -v span=$span '
        { figure[$1] = $2 }
        END {
            missed = figure["wait_seconds"] + figure["taken_seconds"]
            error = stolen - missed
            printf "steal %.2f s; it waited %.3f s and had %.3f s taken; told %s s\n", stolen,
                figure["wait_seconds"], figure["taken_seconds"], figure["steal_published_seconds"]
            exit !(error < span / 100 && error > -span / 100 && missed > span)
        }' figures
}

steals rsdl && steals host
