# Sourced on the other machine, in the folder that holds what bundle.sh has made: see there.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/origin"
site=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
mkdir -p "$root" "$(dirname "$libtorch")"
[ -e "$libtorch" ] || ln -sfn "$site" "$libtorch"
tar -xJf "$here/bundle.tar.xz" -C "$root"
[ ! -d "$here/fashion-mnist" ] || { mkdir -p /usr/share/datasets && cp -r "$here/fashion-mnist" /usr/share/datasets/; }
for library in "$root"/libraries/*; do
  ldconfig -p | grep -q "$(basename "$library") " || cp "$library" /usr/local/lib/
done
ldconfig
cd "$root"
PATH=$root/$build/bin:$PATH
