# One image for every route set; which it runs is told by the environment. The jar is built before: mvn -DskipTests package
#   docker build --build-arg BASE=eclipse-temurin:21-jre-noble@sha256:... -t twinbox .
# BASE has a Java runtime, 21 or newer, as `java` on the path. Give it with its digest: a tag alone is another image tomorrow.
ARG BASE

# Unpacks the jar into layers that change apart: libraries rarely, the program with every build.
FROM ${BASE} AS layers
WORKDIR /build
COPY target/twinbox.jar twinbox.jar
RUN ["java", "-Djarmode=tools", "-jar", "twinbox.jar", "extract", "--layers", "--destination", "layers"]

FROM ${BASE}
WORKDIR /opt/twinbox
COPY --from=layers /build/layers/dependencies/ ./
COPY --from=layers /build/layers/spring-boot-loader/ ./
COPY --from=layers /build/layers/snapshot-dependencies/ ./
COPY --from=layers /build/layers/application/ ./
# Classes as the JVM keeps them, from a start that stops before the first route: no database, no Pub/Sub and no Google account.
# Made by the JVM that will read it; with another one it is ignored.
RUN ["java", "-XX:ArchiveClassesAtExit=twinbox.jsa", "-Xlog:cds=error", "-Xlog:cds+dynamic=error", "-Dspring.context.exit=onRefresh", \
     "-Dspring.flyway.enabled=false", "-Dtwinbox.routes=dispatch,maintain", "-Dtwinbox.topic-dir=/tmp", "-Dtopic.name=training", \
     "-Dgoogle.cloud.project=training", "-Dpubsub.emulator.host=127.0.0.1:1", "-Dspring.datasource.url=jdbc:postgresql://127.0.0.1:1/none", \
     "-Dspring.datasource.hikari.initialization-fail-timeout=-1", "-jar", "twinbox.jar"]

# Any uid works: nothing is written but /tmp, which may be a small emptyDir.
USER 10001:10001
ENV TWINBOX_TOPIC_DIR=/etc/twinbox/topic \
    # Added to by JAVA_TOOL_OPTIONS of the deployment, which comes later in the JVM's own order.
    JDK_JAVA_OPTIONS="-XX:SharedArchiveFile=/opt/twinbox/twinbox.jsa -Xlog:cds=off -XX:MaxRAMPercentage=60 -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData"
EXPOSE 8081
ENTRYPOINT ["java", "-jar", "/opt/twinbox/twinbox.jar"]
