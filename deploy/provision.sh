#!/usr/bin/env bash
# Makes what one topic needs in Google Cloud: service accounts, topics and subscriptions, BigQuery permissions, database users,
# workload identity. Safe to run again. Prints every command first; with --dry-run only that.
#
#   deploy/provision.sh --topic=invoices --subscription=invoices-ledger --instance=twinbox --database=twinbox \
#     --dataset=billing --namespace=twinbox --project=my-project [--ordered] [--dry-run]
#
# Order matters: the subscriptions are made right after the topic and before anybody may publish, because Pub/Sub drops what is
# published to a topic without subscriptions. Deploy consume before dispatch for the same reason.
set -euo pipefail

project=$(gcloud config get-value project 2>/dev/null || true)
topic='' subscription='' instance='' database='' dataset='' dry_run=false
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

for argument in "$@"; do
  case $argument in
    --project=*) project=${argument#*=} ;;
    --topic=*) topic=${argument#*=} ;;
    --subscription=*) subscription=${argument#*=} ;;
    --instance=*) instance=${argument#*=} ;;
    --database=*) database=${argument#*=} ;;
    --dataset=*) dataset=${argument#*=} ;;
    --namespace=*) namespace=${argument#*=} ;;
    --retention=*) retention=${argument#*=} ;;
    # Only for a handler that wants an ordering key's messages in order; Pub/Sub then holds a key back behind a failing message.
    --ordered) ordering=(--enable-message-ordering) ;;
    --dry-run) dry_run=true ;;
    --help | -h)
      sed -n '2,9s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "provision.sh: $argument is no option of it; --help lists them" >&2
      exit 2
      ;;
  esac
done

for required in project topic subscription instance database; do
  if [[ -z ${!required} ]]; then
    echo "provision.sh: --$required is missing; --help shows an example" >&2
    exit 2
  fi
done
# A service account's name has 6 to 30 characters; the longest ending is -dispatch.
if [[ ! $topic =~ ^[a-z][a-z0-9-]{2,20}$ ]]; then
  echo "provision.sh: --topic=$topic: the service accounts are named after it, so 3 to 21 lower-case letters, digits and dashes" >&2
  exit 2
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
  --expiration-period=never "${ordering[@]}"
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
