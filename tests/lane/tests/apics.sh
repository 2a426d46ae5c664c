#!/bin/sh
# A guest at CPL 0 finds its interrupt controllers in user space as Intel's manual says, under every way to carry vCPUs.
#
# limit: 900
# needs: whole-vm-tests
/lane/whole-vm/apics --nocapture
