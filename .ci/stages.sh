# For .ci/run and .ci/nightly: stages with their minutes.
stage_table=''
stages_began=$SECONDS

minutes() { printf '%d.%d' $(($1 / 60)) $(($1 % 60 / 6)); }  # of so many seconds

stage() {  # stage NAME COMMAND...: runs it without standard input; its exit status
  local name=$1 began=$SECONDS status=0 result=ok
  shift
  printf 'ci: %s: %s\n' "$name" "$*"
  "$@" </dev/null || status=$?
  [ $status = 0 ] || result=FAILED
  printf 'ci: %s: %s in %s minutes\n' "$name" $result "$(minutes $((SECONDS - began)))"
  stage_table+=$(printf 'ci: %-12s %6s %8s' "$name" $result "$(minutes $((SECONDS - began)))")$'\n'
  return $status
}

print_stages() {
  printf 'ci: %-12s %6s %8s\n%s' stage result minutes "$stage_table"
  printf 'ci: %-12s %6s %8s\n' all '' "$(minutes $((SECONDS - stages_began)))"
}
