#!/usr/bin/env bash
# Builds the image and runs ContainersTest on it, also where no container registry is reached: without --base it makes a stand-in
# base from Debian's packages (debootstrap, as root) and the Java runtime of JAVA_HOME, 21 or newer. Needs a Docker engine.
#   deploy/try-image.sh [--base=eclipse-temurin:21-jre-noble@sha256:...]
set -euo pipefail
cd "$(dirname "$0")/.."

base=''
for argument in "$@"; do
  case $argument in
    --base=*) base=${argument#*=} ;;
    *)
      echo "try-image.sh: $argument is no option of it" >&2
      exit 2
      ;;
  esac
done

docker info >/dev/null 2>&1 || {
  echo "try-image.sh: no Docker engine answers; start one, or set DOCKER_HOST" >&2
  exit 1
}
if [[ -z $base ]]; then
  : "${JAVA_HOME:?try-image.sh: set JAVA_HOME to a JDK, 21 or newer, or give --base}"
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  # The mirror that this machine's own packages come from.
  # apt reads the variable, not the shell.
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -1)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${mirror:+"$mirror"} >/dev/null
  "$JAVA_HOME/bin/jlink" --add-modules java.se,jdk.unsupported,jdk.crypto.ec,jdk.management,jdk.naming.dns,jdk.net,jdk.zipfs \
    --strip-debug --no-header-files --no-man-pages --output "$root/opt/java"
  # What a runtime image comes with; the image's own archive builds on it.
  "$root/opt/java/bin/java" -Xshare:dump >/dev/null
  ln -s /opt/java/bin/java "$root/usr/local/bin/java"
  rm -rf "$root"/usr/share/{doc,man,locale} "$root"/var/{cache/apt,lib/apt/lists}/*
  base=twinbox-stand-in-base
  tar -C "$root" -c . | docker import - "$base" >/dev/null
fi
mvn -q package -DskipTests
docker build --build-arg BASE="$base" -t twinbox:local .
docker image ls twinbox:local
TWINBOX_IMAGE=twinbox:local mvn -q -Plong test -Dtest=ContainersTest
