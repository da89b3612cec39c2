#!/usr/bin/env bash
# Runs once, as root, when the autograder's image is built.
set -euo pipefail
base=${AUTOGRADER:-/autograder}
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; }
apt-get update -qq
install bubblewrap python3 python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    install python3.11 python3.11-venv # Ubuntu 22.04 has both
    python=python3.11
fi
"$python" -m venv "$base/venv"
"$base/venv/bin/pip" install --quiet --constraint "$base/source/requirements.lock" "$base/source/project[homework]"
# Tests and solutions are for root alone: where bubblewrap may not work, submissions run as another user.
chmod -R go-rwx "$base"/source "$base"/venv/lib/python3*/site-packages/moe_homework
