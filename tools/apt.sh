# Read by tools/setup and tools/slurm-sandbox.
# Another apt on the machine (an unattended upgrade) holds a lock: wait for it, ten minutes at most.
wait_for_apt() { # arguments of apt-get
    local end=$((SECONDS + 600)) said='' errors
    errors=$(mktemp)
    until LC_ALL=C apt-get -o DPkg::Lock::Timeout=600 "$@" 2>"$errors"; do
        grep -qiE "could not get lock|unable to lock|unable to acquire" "$errors" && [ "$SECONDS" -lt "$end" ] || {
            cat "$errors" >&2
            rm -f "$errors"
            return 1
        }
        [ -n "$said" ] || echo "another program is installing packages; waiting for it to end, ten minutes at most"
        said=yes
        sleep "${BURAN_APT_POLL_S:-5}"
    done
    rm -f "$errors"
}
