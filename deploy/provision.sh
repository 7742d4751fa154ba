#!/usr/bin/env bash
# Makes what one topic needs in Google Cloud: service accounts, topics and subscriptions, BigQuery permissions, database users,
# workload identity. Safe to run again. Prints every command first; with --dry-run only that.
#
#   deploy/provision.sh --topic=invoices --subscription=invoices-ledger --instance=twinbox --database=twinbox \
#     --dataset=billing --namespace=twinbox --project=my-project --dry-run
#
#   --project=       Google Cloud project; without it the one that gcloud is set to
#   --topic=         the topic; the service accounts are named after it
#   --subscription=  the subscription that consume reads
#   --instance=      Cloud SQL instance, which must be there
#   --database=      database on it
#   --dataset=       BigQuery dataset that produce reads, of this project; leave it out where nothing is read
#   --namespace=     Kubernetes namespace of the pods; twinbox
#   --retention=     how long the subscription keeps what is not acknowledged, 10m to 31d; 7d
#   --ordered        messages of one ordering key come in order; only a new subscription can be made so
#   --dry-run        print the commands, tell Google nothing
#
# Order matters: the subscriptions are made right after the topic and before anybody may publish, because Pub/Sub drops what is
# published to a topic without subscriptions. Deploy consume before dispatch for the same reason.
set -euo pipefail

project='' topic='' subscription='' instance='' database='' dataset='' dry_run=false
ordering=()
namespace=twinbox
# Kept as long as a subscription may keep: what is not applied within this time is gone from Pub/Sub, and is republished from the
# outbox (twinbox.maintain.payload-retention must be longer).
retention=7d
# Between deliveries of a message whose handler fails. The inbox gives it up after twinbox.consume.max-attempts failures.
min_backoff=10s
max_backoff=600s
# High, so that the inbox gives a message up first, with its reason. Pub/Sub's own policy is for what kills its consumer.
max_delivery_attempts=100
ack_deadline=60

refuse() {
  echo "provision.sh: $*" >&2
  exit 2
}

for argument in "$@"; do
  case $argument in
    --project=* | --topic=* | --subscription=* | --instance=* | --database=* | --dataset=* | --namespace=* | --retention=*)
      name=${argument%%=*}
      # An empty value would be taken for an option that was left out.
      [[ -n ${argument#*=} ]] || refuse "$name= has no value; write $name=... or leave it out"
      printf -v "${name#--}" '%s' "${argument#*=}"
      ;;
    # Pub/Sub then holds a key back behind a failing message.
    --ordered) ordering=(--enable-message-ordering) ;;
    --dry-run) dry_run=true ;;
    --help | -h)
      sed -n '2,20s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    --project | --topic | --subscription | --instance | --database | --dataset | --namespace | --retention)
      refuse "$argument has no value; write $argument=..., with an equals sign"
      ;;
    *) refuse "$(printf '%q' "$argument") is no option of it; --help lists them" ;;
  esac
done
[[ -n $project ]] || project=$(gcloud config get-value project 2>/dev/null || true)

for required in project topic subscription instance database; do
  [[ -n ${!required} ]] || refuse "--$required is missing; --help shows an example"
done

# Refuses the value of an option that is not what Google takes: name, pattern of all of it, and what to write.
check() {
  # Ranges of letters are ASCII's, whatever the locale.
  local LC_ALL=C
  [[ ${!1} =~ ^($2)$ ]] || refuse "--$1=$(printf '%q' "${!1}"): $3"
}

# https://cloud.google.com/resource-manager/docs/creating-managing-projects
check project '[a-z][a-z0-9-]{4,28}[a-z0-9]' \
  'write the project'"'"'s id, not its name or number: 6 to 30 lower-case letters, digits and dashes, a letter first, no dash last (ids with a domain, example.com:id, are not supported)'
# A service account's name has 6 to 30 characters; the longest ending is -dispatch.
check topic '[a-z][a-z0-9-]{2,20}' \
  'the service accounts are named after it, so write 3 to 21 lower-case letters, digits and dashes, a letter first'
# https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
check subscription '[A-Za-z][A-Za-z0-9._~+%-]{2,254}' \
  'write its name, without projects/.../subscriptions/: 3 to 255 letters, digits and any of - . _ ~ + %, a letter first'
for name in topic subscription; do
  [[ ${!name} != goog* ]] || refuse "--$name=${!name}: Pub/Sub keeps names that start with goog for itself; write another"
done
# https://cloud.google.com/sql/docs/postgres/create-instance
check instance '[a-z][a-z0-9-]{0,97}' \
  'write the instance'"'"'s id, without project and region: up to 98 lower-case letters, digits and dashes, a letter first'
# PostgreSQL takes more, but each of these stands as it is in a JDBC URL and in psql.
check database '[A-Za-z_][A-Za-z0-9_-]{0,62}' 'write up to 63 letters, digits, underscores and dashes, a letter or underscore first'
# https://cloud.google.com/bigquery/docs/datasets#dataset-naming
[[ -z $dataset ]] || check dataset '[A-Za-z0-9_]{1,255}' \
  'write the name of a dataset of this project, without the project: letters, digits and underscores'
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
check namespace '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?' \
  'write up to 63 lower-case letters, digits and dashes, no dash first or last'
check retention '[1-9][0-9]{0,6}[smhd]' 'write a number and s, m, h or d, such as 7d'
case $retention in
  *s) seconds=${retention%?} ;;
  *m) seconds=$((${retention%?} * 60)) ;;
  *h) seconds=$((${retention%?} * 3600)) ;;
  *d) seconds=$((${retention%?} * 86400)) ;;
esac
((seconds >= 600 && seconds <= 31 * 86400)) || refuse "--retention=$retention: Pub/Sub keeps messages for 10m to 31d"
# The users of the database are named topic-dispatch@project.iam, and PostgreSQL cuts names off after 63 bytes.
((${#topic} + ${#project} <= 49)) ||
  refuse "--topic=$topic: with --project=$project a database user would have a name of more than 63 characters;" \
    "write a topic of at most $((49 - ${#project})) characters"
# It would be found there already, on the wrong topic.
[[ $subscription != "$topic-dead-kept" ]] ||
  refuse "--subscription=$subscription: so the subscription of the dead-letter topic is named; write another"

if ! $dry_run; then
  for program in gcloud ${dataset:+bq}; do
    command -v "$program" >/dev/null || refuse "$program is not on the path; install the Google Cloud CLI, or give --dry-run"
  done
  # A subscription that is there already may be another topic's, and its order can no longer be chosen.
  if there=$(gcloud pubsub subscriptions describe "$subscription" --project="$project" \
    --format='value[separator=" "](topic,enableMessageOrdering)' 2>/dev/null); then
    [[ ${there%% *} == "projects/$project/topics/$topic" ]] ||
      refuse "--subscription=$subscription: it is there already, and reads ${there%% *};" \
        "write another name, or delete it (what waits in it is lost then)"
    [[ ${#ordering[@]} -eq 0 || ${there#* } == [Tt]rue ]] ||
      refuse "--ordered: $subscription is there already, without message ordering, which Pub/Sub cannot change;" \
        "write another name, or leave --ordered out"
  fi
fi

say() {
  printf '%q ' "$@" | sed 's/ $//'
  printf '\n'
}

# Runs a command, after it is printed.
run() {
  say "$@"
  $dry_run || "$@"
}

# Runs the second command unless the first, which only looks, finds that the thing is there. "::" parts them.
unless() {
  local look=()
  while [[ $1 != :: ]]; do
    look+=("$1")
    shift
  done
  shift
  if ! $dry_run && "${look[@]}" >/dev/null 2>&1; then
    echo "# there already: ${*:1:5}"
    return
  fi
  run "$@"
}

account() {
  echo "$topic-$1@$project.iam.gserviceaccount.com"
}

echo "# 1. APIs"
run gcloud services enable pubsub.googleapis.com bigquery.googleapis.com sqladmin.googleapis.com \
  iamcredentials.googleapis.com --project="$project"

echo "# 2. A service account per route set"
for set in produce dispatch consume maintain migrate; do
  unless gcloud iam service-accounts describe "$(account $set)" --project="$project" :: \
    gcloud iam service-accounts create "$topic-$set" --display-name="Twinbox $topic: $set" --project="$project"
  run gcloud iam service-accounts add-iam-policy-binding "$(account $set)" --project="$project" \
    --role=roles/iam.workloadIdentityUser --member="serviceAccount:$project.svc.id.goog[$namespace/$topic-$set]" --condition=None
done

echo "# 3. The dead-letter topic, and a subscription that keeps what comes there"
unless gcloud pubsub topics describe "$topic-dead" --project="$project" :: \
  gcloud pubsub topics create "$topic-dead" --project="$project"
unless gcloud pubsub subscriptions describe "$topic-dead-kept" --project="$project" :: \
  gcloud pubsub subscriptions create "$topic-dead-kept" --project="$project" --topic="$topic-dead" \
  --expiration-period=never --message-retention-duration=31d

echo "# 4. The topic, and its subscription before anybody may publish"
unless gcloud pubsub topics describe "$topic" --project="$project" :: \
  gcloud pubsub topics create "$topic" --project="$project"
unless gcloud pubsub subscriptions describe "$subscription" --project="$project" :: \
  gcloud pubsub subscriptions create "$subscription" --project="$project" --topic="$topic" \
  --expiration-period=never ${ordering[@]+"${ordering[@]}"}
run gcloud pubsub subscriptions update "$subscription" --project="$project" \
  --expiration-period=never --message-retention-duration="$retention" --ack-deadline="$ack_deadline" \
  --min-retry-delay="$min_backoff" --max-retry-delay="$max_backoff" \
  --dead-letter-topic="projects/$project/topics/$topic-dead" --max-delivery-attempts="$max_delivery_attempts"

echo "# 5. Pub/Sub itself moves dead letters: without these two it counts attempts and moves nothing"
if $dry_run; then
  number=PROJECT_NUMBER
else
  number=$(gcloud projects describe "$project" --format='value(projectNumber)')
fi
agent="serviceAccount:service-$number@gcp-sa-pubsub.iam.gserviceaccount.com"
run gcloud pubsub topics add-iam-policy-binding "$topic-dead" --project="$project" --role=roles/pubsub.publisher --member="$agent"
run gcloud pubsub subscriptions add-iam-policy-binding "$subscription" --project="$project" --role=roles/pubsub.subscriber --member="$agent"

echo "# 6. consume reads the subscription, and looks at its settings and at the dead-letter topic's subscriptions"
run gcloud pubsub subscriptions add-iam-policy-binding "$subscription" --project="$project" \
  --role=roles/pubsub.subscriber --member="serviceAccount:$(account consume)"
run gcloud pubsub subscriptions add-iam-policy-binding "$subscription" --project="$project" \
  --role=roles/pubsub.viewer --member="serviceAccount:$(account consume)"
run gcloud pubsub topics add-iam-policy-binding "$topic-dead" --project="$project" \
  --role=roles/pubsub.viewer --member="serviceAccount:$(account consume)"

echo "# 7. dispatch publishes, and sees whether the topic has a subscription"
run gcloud pubsub topics add-iam-policy-binding "$topic" --project="$project" \
  --role=roles/pubsub.publisher --member="serviceAccount:$(account dispatch)"
run gcloud pubsub topics add-iam-policy-binding "$topic" --project="$project" \
  --role=roles/pubsub.viewer --member="serviceAccount:$(account dispatch)"

if [[ -n $dataset ]]; then
  echo "# 8. produce runs query jobs and reads one dataset"
  run gcloud projects add-iam-policy-binding "$project" --role=roles/bigquery.jobUser \
    --member="serviceAccount:$(account produce)" --condition=None --format=none
  run bq query --project_id="$project" --use_legacy_sql=false \
    "GRANT \`roles/bigquery.dataViewer\` ON SCHEMA \`$project\`.\`$dataset\` TO 'serviceAccount:$(account produce)'"
fi

echo "# 9. The database, and a user per route set that logs in as its service account"
unless gcloud sql databases describe "$database" --instance="$instance" --project="$project" :: \
  gcloud sql databases create "$database" --instance="$instance" --project="$project" --charset=UTF8
for set in produce dispatch consume maintain migrate; do
  for role in roles/cloudsql.client roles/cloudsql.instanceUser; do
    run gcloud projects add-iam-policy-binding "$project" --role="$role" \
      --member="serviceAccount:$(account $set)" --condition=None --format=none
  done
  user=$(account $set)
  # The list must be read whole: grep -q would end the pipe early and fail it.
  unless test -n "$($dry_run || gcloud sql users list --instance="$instance" --project="$project" \
    --filter="name=${user%.gserviceaccount.com}" --format='value(name)')" :: \
    gcloud sql users create "${user%.gserviceaccount.com}" --instance="$instance" --project="$project" \
    --type=cloud_iam_service_account
done

echo "# 10. As an administrator of the database (psql), once; docs/roles.md"
echo "#   psql \"\$ADMIN_URL\" -v ON_ERROR_STOP=1 -f sql/roles/create-roles.sql"
echo "#   GRANT ALL ON SCHEMA public TO \"$topic-migrate@$project.iam\";"
for set in produce dispatch consume maintain; do
  echo "#   GRANT twinbox_$set TO \"$topic-$set@$project.iam\";"
done
echo "# 11. Then deploy, consume before dispatch; docs/deploy.md:"
echo "#   kubectl apply -k k8s/topics/$topic"
