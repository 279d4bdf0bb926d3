{{- define "afl.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Labels by which pods are chosen: (dict "root" $ "part" "evaluator"). */}}
{{- define "afl.selector" -}}
app.kubernetes.io/name: afl-stream
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part | quote }}
{{- end -}}

{{- define "afl.labels" -}}
{{ include "afl.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{/* Variables of a pod: (dict "root" $ "store" true). Without "store" it cannot reach the evaluators' database. */}}
{{- define "afl.env" -}}
{{- $_ := required "settings.AFL_KAFKA_BOOTSTRAP: the brokers to ask first, as kafka-1:9092,kafka-2:9092" (index .root.Values.settings "AFL_KAFKA_BOOTSTRAP") }}
{{- range $name, $value := .root.Values.settings }}
{{- if or $.store (ne $name "AFL_STORE_URL") }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $key := .root.Values.secretSettings.keys }}
{{- if or $.store (ne $name "AFL_STORE_URL") }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ required "secretSettings.secret: the Secret that has secretSettings.keys" $.root.Values.secretSettings.secret | quote }}
      key: {{ $key | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Metrics and health, on every address of the pod: the NetworkPolicy says who reaches them. */}}
{{- define "afl.metricsEnv" -}}
- name: AFL_METRICS_PORT
  value: "9464"
- name: AFL_METRICS_HOST
  value: "0.0.0.0"
{{- end -}}

{{- define "afl.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health/live, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /health/ready, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{- define "afl.podSettings" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "afl.container" -}}
image: {{ include "afl.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "afl.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: data, mountPath: /var/lib/afl-stream}
{{- if .Values.program.configMap }}
- {name: program, mountPath: /app, readOnly: true}
{{- end }}
{{- end -}}

{{/* Volumes of a pod whose data is not kept. */}}
{{- define "afl.volumes" -}}
- {name: tmp, emptyDir: {}}
- {name: data, emptyDir: {}}
{{- include "afl.programVolume" . }}
{{- end -}}

{{- define "afl.programVolume" -}}
{{- if .Values.program.configMap }}
- name: program
  configMap: {name: {{ .Values.program.configMap | quote }}}
{{- end }}
{{- end -}}

{{- define "afl.podMeta" -}}
labels: {{ include "afl.labels" . | nindent 2 }}
{{- with .root.Values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
